// Package backup has what backups of a hosted space and their restoration decide: which files a
// directory of backups has, which of them are kept, and which marks a space gets when it is
// restored. It knows no etcd.
package backup

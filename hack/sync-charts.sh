#!/usr/bin/env bash
# Copies into the charts what they share with config/.
set -euo pipefail
cd "$(dirname "$0")/.."

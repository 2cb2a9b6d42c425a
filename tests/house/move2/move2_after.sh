#!/usr/bin/env bash
# What must run after move2.py, in the repository; each step says what it changed. Nothing here is committed.
#   move2_after.sh            form, generated pages, checks of the source
#   move2_after.sh --tests    then mypy, the collection of all tests, and the rooms of tests that look at names
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
step() { # a name, then a command
  local before after
  before=$(git status --porcelain | md5sum; git diff | md5sum)
  echo "== $1"; shift
  "$@" || echo "   FAILED: $*"
  after=$(git status --porcelain | md5sum; git diff | md5sum)
  [ "$before" = "$after" ] || { echo "   changed:"; git diff --stat | tail -1; }
}
page() { python "$1" > "$2.new" && mv "$2.new" "$2"; } # never an empty page where its script fails
git add -A # the index has what move2.py did; what the steps change stands beside it

step "order of imports" ruff check -q --select I --fix .
step "form" ruff format -q .
step "what ruff still says" ruff check .
step "protobuf" python proto/generate.py --check
for made in settings_table:settings commands_page:commands codes_page:codes messages_page:messages metrics_page:metrics api_page:python; do
  step "docs/reference/${made#*:}.md" page "deploy/${made%:*}.py" "docs/reference/${made#*:}.md"
done
step "docs/reference/policies.md" python deploy/policies_page.py
step "deploy/nats/accounts.conf" python deploy/nats/permissions.py
step "deploy/helm nack" page deploy/helm/nack.py deploy/helm/router/files/nack.yaml
step "deploy/grafana" python deploy/grafana/make.py
step "names that pages of the code name" python -c '
from tests.docs.test_named_files import PAGES, find_missing_names
for page in PAGES:
    for name in find_missing_names(page.read_text()):
        print("   missing:", page.name, name)'
step "circles" python "$here/circles2.py"
step "fingerprint" python -m tests.house.fingerprint
step "figures" python -m tests.house.figures
step "laws of imports" lint-imports --no-cache
if [ "${1:-}" = --tests ]; then
  step "types" mypy
  step "each module imported first" python "$here/circles2.py" --alone
  step "collection" python -m pytest --collect-only -q
  step "tests of names" python -m pytest -q -p no:cacheprovider tests/house tests/docs tests/core tests/contracts tests/security tests/config
fi
# By hand, or with what is not on every machine: `make client-types` (npm), docs/reference/permissions.md (tests/support/permissions.py,
# against a server), deploy/packaging/completions (`_ROUTER_COMPLETE=source_bash router`), the pictures of the console.

#!/bin/sh
# Prepares a federation, signs its members' certificates, and aggregates. A second start goes on with the federation.
#
# ADDRESS        the name under which the members reach this machine
# PLAN           a plan of the package by its name, or the path of a plan
# PLAN_SETTINGS  changes to it, PATH=VALUE, one on each line (none)
# MEMBERS        the names of the collaborators, separated by spaces
# FLEETS         the names of the machines whose fleets stream frames (none)
# WORKSPACE      folder that keeps the federation and its keys (/workspace)
# EXCHANGE       folder for what is handed to the other machines: workspace.zip, requests and certificates (/exchange)
#
# Whoever can write to EXCHANGE becomes a member under any name in MEMBERS that has not asked yet.

. "$(dirname "$0")/common.sh"
need ADDRESS "the name under which the members reach this machine"
need PLAN "the name or the path of a plan"
need MEMBERS "the names of the collaborators, separated by spaces"
for name in $ADDRESS; do check_name ADDRESS "$name"; done
for name in $MEMBERS; do check_name MEMBERS "$name"; done
for name in ${FLEETS:-}; do
    check_name FLEETS "$name"
    [ "$name" != "$ADDRESS" ] || fail "FLEETS has '$name', which is ADDRESS: each has a certificate, so give the fleet's machine a second name."
done
check_folder WORKSPACE "$WORKSPACE"
check_folder EXCHANGE "$EXCHANGE"

prepare() {
    source=$(python -c 'from fedagem.plans.workspace import workspace_source; print(workspace_source())')
    plans=$(python -c 'from fedagem.plans.workspace import plan_folder; print(plan_folder())')
    rm -rf "$WORKSPACE/new"
    mkdir -p "$WORKSPACE/new/workspace"
    cd "$WORKSPACE/new/workspace"
    cp -R "$source/." .
    rm -rf plan
    mkdir -p plan save
    set --
    while IFS= read -r setting; do
        [ -z "$setting" ] || set -- "$@" --set "$setting"
    done <<END
${PLAN_SETTINGS:-}
END
    fedagem plan write "$PLAN" "$@" > plan/plan.yaml
    cp "$plans/cols.yaml" "$plans/data.yaml" plan
    fx plan initialize -a "$ADDRESS"
    fx workspace certify
    fx aggregator generate-cert-request --fqdn "$ADDRESS"
    fx aggregator certify --fqdn "$ADDRESS" --silent
    fx workspace export
    cd "$WORKSPACE"
    mv new/workspace workspace
    rm -r new
}

[ -d "$WORKSPACE/workspace" ] || (prepare)
cd "$WORKSPACE/workspace"
[ -e "$EXCHANGE/workspace.zip" ] || publish workspace.zip "$EXCHANGE/workspace.zip"

# unsigned REQUEST ANSWER: also if a member lost its keys and asks again.
unsigned() {
    [ ! -e "$2" ] || [ "$1" -nt "$2" ]
}

for name in ${FLEETS:-}; do
    request=$EXCHANGE/agg_$name.csr answer=$EXCHANGE/agg_$name.crt
    wait_for "$request"
    if unsigned "$request" "$answer"; then
        cp "$request" "cert/server/agg_$name.csr"
        fx aggregator certify --fqdn "$name" --silent
        publish cert/cert_chain.crt "$EXCHANGE/cert_chain.crt"
        publish "cert/server/agg_$name.crt" "$answer"
    fi
done
for name in $MEMBERS; do
    request=$EXCHANGE/col_${name}_to_agg_cert_request.zip answer=$EXCHANGE/agg_to_col_${name}_signed_cert.zip
    wait_for "$request"
    if unsigned "$request" "$answer"; then
        fx collaborator certify --silent --request-pkg "$request"
        publish "agg_to_col_${name}_signed_cert.zip" "$answer"
    fi
done
exec fx aggregator start

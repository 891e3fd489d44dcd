#!/bin/sh
# Joins a federation, and learns. A second start goes on with its state.
#
# NAME       the name of the collaborator: in a driving plan, of its vehicle
# DATA       its data path: a rank, or the vehicle's name (NAME)
# WORKSPACE  folder that keeps its keys, its replay buffer and its state (/workspace)
# EXCHANGE   folder with the aggregator's workspace.zip, for the request and the signed certificate (/exchange)

. "$(dirname "$0")/common.sh"
need NAME "the name of this collaborator"
check_name NAME "$NAME"
check_folder WORKSPACE "$WORKSPACE"
check_folder EXCHANGE "$EXCHANGE"

enter_workspace
request=col_${NAME}_to_agg_cert_request.zip answer=$EXCHANGE/agg_to_col_${NAME}_signed_cert.zip
if [ ! -e "cert/client/col_$NAME.crt" ]; then
    if [ ! -e "$request" ]; then
        fx collaborator create --silent -n "$NAME" -d "${DATA:-$NAME}"
        fx collaborator generate-cert-request --silent -n "$NAME"
        publish "$request" "$EXCHANGE/$request"
        rm -f "$answer" # of keys that are lost
    fi
    [ -e "$EXCHANGE/$request" ] || publish "$request" "$EXCHANGE/$request"
    wait_for "$answer"
    fx collaborator certify --import "$answer"
fi
exec fx collaborator start -n "$NAME"

#!/bin/sh
# Drives the vehicles of a federation's plan, and streams their frames to its collaborators over TLS.
#
# ADDRESS             the name of this machine, under which it listens; the plan names it, too, as data_loader.settings.stream.host
# PORT                the port of the streams (4400)
# EVALUATION_SECONDS  how many seconds to record first, for the frames that models are evaluated on (none)
# EVALUATION_SEED     the seed of that drive, another one than the plan's (12)
# FRAMES              folder for them (/frames)
# WORKSPACE           folder that keeps its keys (/workspace)
# EXCHANGE            folder with the aggregator's workspace.zip, for the request and the signed certificate (/exchange)

. "$(dirname "$0")/common.sh"
FRAMES=${FRAMES:-/frames}
need ADDRESS "the name under which the collaborators reach this machine"
check_name ADDRESS "$ADDRESS"
for number in "PORT ${PORT:=4400}" "EVALUATION_SECONDS ${EVALUATION_SECONDS:=0}" "EVALUATION_SEED ${EVALUATION_SEED:=12}"; do
    case ${number#* } in
        *[!0-9]* | "") fail "${number%% *} is '${number#* }': it must be a whole number." ;;
    esac
done
check_folder WORKSPACE "$WORKSPACE"
check_folder EXCHANGE "$EXCHANGE"

enter_workspace
if [ ! -e "cert/server/agg_$ADDRESS.crt" ]; then
    if [ ! -e "cert/server/agg_$ADDRESS.csr" ]; then
        fx aggregator generate-cert-request --fqdn "$ADDRESS"
        rm -f "$EXCHANGE/agg_$ADDRESS.crt" # of keys that are lost
    fi
    publish "cert/server/agg_$ADDRESS.csr" "$EXCHANGE/agg_$ADDRESS.csr"
    wait_for "$EXCHANGE/agg_$ADDRESS.crt"
    wait_for "$EXCHANGE/cert_chain.crt"
    cp "$EXCHANGE/cert_chain.crt" cert/cert_chain.crt
    publish "$EXCHANGE/agg_$ADDRESS.crt" "cert/server/agg_$ADDRESS.crt"
fi
if [ "$EVALUATION_SECONDS" -gt 0 ] && [ ! -e "$FRAMES/evaluation/recording.json" ]; then
    check_folder FRAMES "$FRAMES"
    set -- --plan plan/plan.yaml --seed "$EVALUATION_SEED" --seconds "$EVALUATION_SECONDS" --jpeg-quality 95
    [ ! -d "$FRAMES/evaluation" ] || set -- "$@" --resume
    carla-bridge record "$@" --out "$FRAMES/evaluation"
fi
exec carla-bridge serve --plan plan/plan.yaml --listen "$ADDRESS:$PORT"

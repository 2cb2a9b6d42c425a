#!/bin/sh
# One ingest on a cluster: ./submit.sh s3://BUCKET [spark-submit options…]
# SPARK_MASTER (default yarn), NATS_URL (an address that executors reach); lake.tar.gz and lake/ in the directory in
# which it is called, see docs/how-to/spark.md.
set -eu
bucket=$1
shift
here=$(dirname "$0")

# ./lake is the archive on an executor, and the environment it was packed from here.
PYSPARK_PYTHON=./lake/bin/python exec spark-submit \
  --master "${SPARK_MASTER:-yarn}" \
  --archives lake.tar.gz#lake \
  --conf spark.executor.instances="${EXECUTORS:-4}" \
  --conf spark.executor.cores=2 \
  --driver-memory 3g \
  --conf spark.sql.session.timeZone=UTC \
  --conf spark.redaction.regex='(?i)secret|password|token|creds|nkey|access[.]?key|url' \
  "$@" \
  "$here/ingest.py" --warehouse "s3://${bucket#*://}/warehouse" --nats-url "${NATS_URL:?an address that executors reach}"

#!/bin/sh
# Adds the new orders to the total: the way that loses an update when this run was overtaken.
set -eu
s3() {
	curl -fsS --aws-sigv4 "aws:amz:us-east-1:s3" --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
		-H "x-amz-content-sha256: UNSIGNED-PAYLOAD" "$@"
}

total=$(s3 "$AWS_ENDPOINT_URL/bucket/total")
new=$(add-orders "$total")
leaderrun check >/dev/null # this run still leads, now
s3 -X PUT --data "$new" "$AWS_ENDPOINT_URL/bucket/total"

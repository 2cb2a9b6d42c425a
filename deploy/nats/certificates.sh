#!/bin/sh
# A certificate authority of one's own, for trials and closed networks: certificates.sh DIR [HOST ...]
#
# Writes DIR/ca.pem and ca.key, server.pem and server.key (for localhost, 127.0.0.1 and each HOST), client.pem and client.key.
# A server shows its certificate to the other servers of a cluster as a client does, so it is good for both.
# What is there is never made anew: with DIR/ca.key it makes the certificates that are missing, without it none. So: delete
# server.pem and run it again for a new server certificate (more HOSTs, 825 days more); delete everything for a new authority,
# which no client with an old certificate will believe.
# Keep ca.key elsewhere afterwards: its holder can make certificates. Where there is an authority already, use that one.
set -eu
cd "${1:?"usage: certificates.sh DIR [HOST ...]"}"
shift
umask 077
days=825

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

signed() {  # signed NAME EXTENSIONS
  if [ -e "$1.pem" ]; then echo "$1.pem is there and stays as it is; delete it to have it made anew" >&2; return; fi
  if [ ! -e ca.key ]; then echo "$1.pem cannot be made: bring ca.key back, or delete ca.pem and all the others for a new authority" >&2; exit 1; fi
  new_key "$1"
  openssl req -new -key "$1.key" -subj "/CN=router-$1" -out "$1.csr"
  printf '%s\nbasicConstraints=CA:FALSE\nkeyUsage=digitalSignature\n' "$2" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days "$days" -sha256 -extfile "$1.ext" -out "$1.pem" 2> /dev/null
  rm "$1.csr" "$1.ext"
}

names="DNS:localhost,IP:127.0.0.1"
for host in "$@"; do names="$names,DNS:$host"; done

if [ ! -e ca.pem ]; then
  new_key ca
  openssl req -x509 -new -key ca.key -subj "/CN=router-ca" -days "$days" -sha256 -out ca.pem \
    -addext "keyUsage=critical,keyCertSign,cRLSign"
fi
signed server "subjectAltName=$names
extendedKeyUsage=serverAuth,clientAuth"
signed client "extendedKeyUsage=clientAuth"
rm -f ca.srl

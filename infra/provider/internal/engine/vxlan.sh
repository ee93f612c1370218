# Keeps a VXLAN interface on the host's bridge for as long as this runs, to hosts that are known by address.
# Environment: LINK, VNI, PORT, LOCAL, BRIDGE, MTU, PEERS (addresses, with blanks between).
fail() { echo "$*"; exit 1; }
gone() { ip link delete "$LINK" 2>/dev/null; }
trap 'gone; exit 0' TERM INT
gone # of one that was killed
[ -n "$(ip -4 -o address show to "$LOCAL")" ] || fail "no interface of this host has the address $LOCAL"
ip link show dev "$BRIDGE" >/dev/null || fail "this host has no bridge $BRIDGE"
ip link add "$LINK" mtu "$MTU" type vxlan id "$VNI" dstport "$PORT" local "$LOCAL" ||
  fail "could not make $LINK (is the number $VNI another fleet's?)"
trap 'gone; exit 1' EXIT
for peer in $PEERS; do
  bridge fdb append 00:00:00:00:00:00 dev "$LINK" dst "$peer" || fail "could not add the peer $peer"
done
ip link set "$LINK" master "$BRIDGE" up || fail "could not put $LINK on $BRIDGE"
echo ready
sleep infinity &
wait

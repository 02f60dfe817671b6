import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6

/** A range of addresses, such as `10.0.0.0/8`. */
export type AddressRange = readonly [Address, number]

/** Reads `10.0.0.0/8`, or one address. Returns undefined for anything else. */
export function readAddressRange(text: string): AddressRange | undefined {
  const [address = '', bits, ...others] = text.split('/')
  if (!isAddress(address) || others.length > 0) return undefined
  const parsed = ipaddr.process(address)
  const bitsMax = parsed.kind() === 'ipv4' ? 32 : 128
  if (bits === undefined) return [parsed, bitsMax]
  return /^\d{1,3}$/.test(bits) && Number(bits) <= bitsMax ? [parsed, Number(bits)] : undefined
}

/**
 * Returns the address of the client: of the connection, unless that is a trusted proxy. Then it is the last address in
 * X-Forwarded-For that is not a trusted proxy itself: a client can write anything before it.
 *
 * @param forwardedFor the values of the header, in the order of the request
 */
export function clientAddressOf(
  connection: string,
  forwardedFor: readonly string[],
  trustedProxies: readonly AddressRange[],
): string {
  const path = [...forwardedFor.flatMap(value => value.split(',')).map(text => text.trim()), connection]
  let client = connection
  for (const text of path.toReversed()) {
    if (!isAddress(text)) break
    client = ipaddr.process(text).toString()
    if (!isWithin(client, trustedProxies)) break
  }
  return client
}

/**
 * Returns the network of an address, for counting: an IPv4 address itself, and the first 64 bits of an IPv6 address,
 * since one line has all addresses that begin with them.
 */
export function networkOf(address: string): string {
  if (!isAddress(address)) return address
  const parsed = ipaddr.process(address)
  if (parsed instanceof ipaddr.IPv4) return parsed.toString()
  return `${ipaddr.IPv6.networkAddressFromCIDR(`${parsed.toString()}/64`).toString()}/64`
}

/**
 * Returns the region of an address: what one provider or data centre usually has in one piece. The first 16 bits of an
 * IPv4 address, and 32 of an IPv6 address.
 */
export function regionOf(address: string): string {
  if (!isAddress(address)) return address
  const parsed = ipaddr.process(address)
  return parsed instanceof ipaddr.IPv4
    ? `${ipaddr.IPv4.networkAddressFromCIDR(`${parsed.toString()}/16`).toString()}/16`
    : `${ipaddr.IPv6.networkAddressFromCIDR(`${parsed.toString()}/32`).toString()}/32`
}

/** ipaddr.js alone would also accept short and octal forms. */
function isAddress(text: string): boolean {
  return ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text)
}

function isWithin(address: string, ranges: readonly AddressRange[]): boolean {
  const parsed = ipaddr.process(address)
  return ranges.some(([network, bits]) => network.kind() === parsed.kind() && parsed.match(network, bits))
}

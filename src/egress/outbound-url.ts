import { isIP } from 'node:net'
import { isPublicAddress } from './public-address.ts'

export interface OutboundUrlRules {
  /** The operator's word that private addresses and http are meant. */
  readonly allowPrivate: boolean
  readonly allowQuery: boolean
}

/**
 * An address that a stranger gave us and that we are to call: https on the public internet, unless `allowPrivate`. Returns the URL, or as
 * text why it is refused. Names are checked again, by what they resolve to, at each connect (pinned-lookup.ts).
 */
export function parseOutboundUrl(text: string, { allowPrivate, allowQuery }: OutboundUrlRules): URL | string {
  // The URL parser drops tabs and turns backslashes round, so what a person read is not what would be called.
  if (/[\s\\]/.test(text) || hasControlCharacter(text)) return 'it contains spaces, backslashes or control characters'
  const url = URL.parse(text)
  if (!url) return 'it is not a whole URL, with https:// and a host name'
  if (url.username || url.password) return 'it contains a user name; give the key separately'
  if (!allowQuery && (url.search || url.hash || /[?#]/.test(text))) return 'it contains a query or a fragment'
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:')) {
    return allowPrivate ? 'it must start with https:// or http://' : 'it must start with https://'
  }
  if (allowPrivate) return url
  if (url.port !== '' && url.port !== '8443') return 'its port must be 443 or 8443'
  return hostFault(url.hostname) ?? url
}

function hostFault(hostname: string): string | undefined {
  const address = hostname.replace(/^\[|\]$/g, '')
  if (isIP(address) !== 0) {
    return isPublicAddress(address) ? undefined : `${hostname} is a private or reserved address`
  }
  if (hostname.endsWith('.')) return 'its host name ends with a dot'
  if (!hostname.includes('.')) return 'its host name has no domain, so it is a local name'
  const labels = hostname.split('.')
  const isLocal = LOCAL_SUFFIXES.some(suffix =>
    suffix.split('.').every((label, at, all) => labels.at(at - all.length) === label),
  )
  return isLocal ? 'its host name is a local name, or one that can stand for any address' : undefined
}

/**
 * Not the list of all public suffixes turned round: that one grows, and a hoster under a new top-level domain would be refused with no
 * way out but to allow private addresses altogether. What this list does not know, the pinned lookup judges by its addresses.
 */
const LOCAL_SUFFIXES = [
  // RFC 6761, RFC 8375, ICANN's reservation of .internal, and names that home and company routers hand out.
  ...['localhost', 'local', 'internal', 'home.arpa', 'localdomain', 'lan', 'home', 'corp', 'intranet', 'private'],
  ...['localnet', 'intra', 'loc', 'domain', 'workgroup', 'mshome', 'router', 'gateway', 'dhcp', 'vpn'],
  // What service discovery and container networks answer to; none of them is a top-level domain.
  ...[
    'consul',
    'nomad',
    'docker',
    'podman',
    'kube',
    'k8s',
    'svc',
    'cluster',
    'mesh',
    'weave',
    'rancher',
    'marathon',
    'mesos',
  ],
  // RFC 6761, 7686, 9476, and names of networks that are not the internet.
  ...['test', 'example', 'invalid', 'onion', 'arpa', 'alt', 'i2p', 'bit', 'eth'],
  // Public services that resolve a name to the address written in it; the pinned lookup refuses their private answers anyway.
  ...['nip.io', 'sslip.io', 'xip.io', 'traefik.me', 'localtest.me', 'lvh.me', 'vcap.me'],
]

function hasControlCharacter(text: string): boolean {
  for (const character of text) {
    const code = character.codePointAt(0)!
    if (code < 0x20 || code === 0x7f) return true
  }
  return false
}

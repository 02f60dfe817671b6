import { isIP } from 'node:net'
import { hostNameProblem } from '../../base/runtime/host-name.ts'
import { isPublicAddress } from './public-address.ts'

export interface OutboundUrlRules {
  /** The operator permits private addresses and http. */
  readonly allowPrivate: boolean
  readonly allowQuery: boolean
}

/**
 * Checks a URL from a third party that the gateway will call: it must be https on the public internet, unless
 * `allowPrivate`. Returns the URL, or the reason for a refusal as text. The addresses of a host name are
 * checked at each connect (pinned-lookup.ts).
 */
export function parseOutboundUrl(text: string, { allowPrivate, allowQuery }: OutboundUrlRules): URL | string {
  // The URL parser drops tabs and turns backslashes into slashes, so the URL called would differ from the one
  // a person has read.
  if (/[\s\\]/.test(text) || hasControlCharacter(text)) return 'it contains spaces, backslashes or control characters'
  const url = URL.parse(text)
  if (!url) return 'it is not a complete URL with https:// and a host name'
  if (url.username || url.password) return 'it contains a user name; give the key separately'
  if (!allowQuery && (url.search || url.hash || /[?#]/.test(text))) return 'it contains a query or a fragment'
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:')) {
    return allowPrivate ? 'it must start with https:// or http://' : 'it must start with https://'
  }
  const nameProblem = hostNameProblem(url.hostname, { allowUnderscores: allowPrivate })
  if (nameProblem !== undefined) return nameProblem
  if (allowPrivate) return url
  if (url.port !== '' && url.port !== '8443') return 'its port must be 443 or 8443'
  return hostProblem(url.hostname) ?? url
}

function hostProblem(hostname: string): string | undefined {
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
  return isLocal ? 'its host name is a local name or can resolve to any address' : undefined
}

/**
 * A deny-list of local suffixes. An allow-list of public ones would lag behind new top-level domains, and a hoster
 * under one of these could only be used with all private addresses allowed. For names missing here, the pinned
 * lookup checks the addresses.
 */
const LOCAL_SUFFIXES = [
  // RFC 6761, RFC 8375, ICANN's reservation of .internal, and names that home and company routers hand out.
  ...['localhost', 'local', 'internal', 'home.arpa', 'localdomain', 'lan', 'home', 'corp', 'intranet', 'private'],
  ...['localnet', 'intra', 'loc', 'domain', 'workgroup', 'mshome', 'router', 'gateway', 'dhcp', 'vpn'],
  // Names of service discovery and container networks; none of them is a top-level domain.
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
  // RFC 6761, 7686, 9476, and names of networks other than the internet.
  ...['test', 'example', 'invalid', 'onion', 'arpa', 'alt', 'i2p', 'bit', 'eth'],
  // Public services that resolve a name to the address written in it. The pinned lookup would also refuse
  // their private addresses.
  ...['nip.io', 'sslip.io', 'xip.io', 'traefik.me', 'localtest.me', 'lvh.me', 'vcap.me'],
]

function hasControlCharacter(text: string): boolean {
  for (const character of text) {
    const code = character.codePointAt(0)!
    if (code < 0x20 || code === 0x7f) return true
  }
  return false
}

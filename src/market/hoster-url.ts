import { isIP } from 'node:net'
import { isPublicAddress } from './public-address.ts'
import { SupplyError } from './supply-error.ts'

/**
 * Checks the address a hoster gave us and returns it without a trailing slash. We will send requests and a credential there,
 * so it must be https on the public internet; `allowPrivate` is the operator's word that private addresses and http are meant.
 * Names are checked again, by what they resolve to, at each connect (pinned-lookup.ts). Throws SupplyError `invalid_url`.
 */
export function checkHosterUrl(text: string, { allowPrivate }: { allowPrivate: boolean }): string {
  // The URL parser drops tabs and turns backslashes round, so what a person read is not what would be called.
  if (/[\s\\]/.test(text) || hasControlCharacter(text))
    throw refused('it contains spaces, backslashes or control characters')
  const url = URL.parse(text)
  if (!url) throw refused('it is not a URL such as https://models.example.com/v1')
  if (url.username || url.password) throw refused('it contains a user name; give the key separately')
  if (url.search || url.hash || /[?#]/.test(text)) throw refused('it contains a query or a fragment')
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:'))
    throw refused('it must start with https://')
  if (!allowPrivate) {
    if (url.port !== '' && url.port !== '8443') throw refused('its port must be 443 or 8443')
    checkHost(url.hostname)
  }
  return url.href.replace(/\/+$/, '')
}

function checkHost(hostname: string): void {
  const address = hostname.replace(/^\[|\]$/g, '')
  if (isIP(address) !== 0) {
    if (!isPublicAddress(address)) throw refused(`${hostname} is a private or reserved address`)
    return
  }
  if (hostname.endsWith('.')) throw refused('its host name ends with a dot')
  if (!hostname.includes('.')) throw refused('its host name has no domain, so it is a local name')
  const labels = hostname.split('.')
  const isLocal = LOCAL_SUFFIXES.some(suffix =>
    suffix.split('.').every((label, at, all) => labels.at(at - all.length) === label),
  )
  if (isLocal) throw refused('its host name is a local name, or one that can stand for any address')
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

function refused(reason: string): SupplyError {
  return new SupplyError(
    'invalid_url',
    `This hoster URL is refused: ${reason}. For a server of your own on a private network, set hosters.allow_private_urls: true.`,
  )
}

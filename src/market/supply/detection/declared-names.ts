import { networkInterfaces } from 'node:os'
import { cloudPresets } from './cloud-presets.ts'
import { commonLocalServers, type LocalServer } from './detect-local.ts'
import { regionalPresets } from './regional-presets.ts'

/**
 * Returns the names that detection must skip: those of the declared endpoints, and the standard names of
 * servers and clouds that the configuration declares under other names. Otherwise a declared model would be
 * sold twice, at the lower of two prices.
 *
 * @param localServers the local servers that detection asks
 * @param ownAddresses addresses of this machine other than loopback
 */
export function declaredNames(
  endpoints: readonly { readonly name: string; readonly base_url: string }[],
  localServers: readonly LocalServer[] = commonLocalServers,
  ownAddresses: readonly string[] = addressesOfInterfaces(),
): ReadonlySet<string> {
  const names = endpoints.flatMap(({ name, base_url }) => {
    const { hostname, port, protocol } = new URL(base_url)
    const portNumber = Number(port || (protocol === 'https:' ? 443 : 80))
    const locals = isThisMachine(hostname, ownAddresses)
      ? localServers.filter(server => server.port === portNumber)
      : []
    const clouds = cloudPresets.filter(preset => new URL(preset.baseUrl).hostname === hostname)
    const regional = regionalPresets.filter(preset => preset.hosts.test(hostname))
    return [
      name,
      ...regional.map(preset => preset.name),
      ...locals.map(server => server.name),
      ...clouds.map(preset => preset.name),
    ]
  })
  return new Set(names)
}

function isThisMachine(hostname: string, ownAddresses: readonly string[]): boolean {
  const address = hostname.replace(/^\[|\]$/g, '')
  return /^(localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1|::)$/.test(address) || ownAddresses.includes(address)
}

function addressesOfInterfaces(): string[] {
  return Object.values(networkInterfaces()).flatMap(addresses => addresses?.map(({ address }) => address) ?? [])
}

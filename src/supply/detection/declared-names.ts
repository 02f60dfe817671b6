import { networkInterfaces } from 'node:os'
import { cloudPresets } from './cloud-presets.ts'
import { usualLocalServers } from './detect-local.ts'

/**
 * The names that detection has to leave alone: those of the endpoints that the configuration declares, and those of the same servers and clouds where it
 * calls them otherwise. What is declared would be sold twice, and at the lower of two prices.
 *
 * @param ownAddresses those of this machine beside loopback
 */
export function declaredNames(
  endpoints: readonly { readonly name: string; readonly base_url: string }[],
  ownAddresses: readonly string[] = addressesOfInterfaces(),
): ReadonlySet<string> {
  const names = endpoints.flatMap(({ name, base_url }) => {
    const { hostname, port, protocol } = new URL(base_url)
    const portNumber = Number(port || (protocol === 'https:' ? 443 : 80))
    const locals = isOwn(hostname, ownAddresses) ? usualLocalServers.filter(server => server.port === portNumber) : []
    const clouds = cloudPresets.filter(preset => new URL(preset.baseUrl).hostname === hostname)
    return [name, ...locals.map(server => server.name), ...clouds.map(preset => preset.name)]
  })
  return new Set(names)
}

function isOwn(hostname: string, ownAddresses: readonly string[]): boolean {
  const address = hostname.replace(/^\[|\]$/g, '')
  return /^(localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1|::)$/.test(address) || ownAddresses.includes(address)
}

function addressesOfInterfaces(): string[] {
  return Object.values(networkInterfaces()).flatMap(addresses => addresses?.map(({ address }) => address) ?? [])
}

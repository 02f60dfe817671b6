import { hostname } from 'node:os'
import { AllowedHosts } from '../http/allowed-hosts.ts'
import type { Config } from './config/config.ts'

/** Allows the configured names, the name of the public URL, and the name of this machine. */
export function allowedHostsOf({ server }: Pick<Config, 'server'>): AllowedHosts {
  const { allowedHosts, publicBaseUrl, host } = server
  const publicNames = publicBaseUrl === null ? [] : [new URL(publicBaseUrl).hostname]
  return new AllowedHosts([...allowedHosts, ...publicNames, host, hostname()].map(name => name.toLowerCase()))
}

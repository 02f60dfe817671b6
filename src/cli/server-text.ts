import { AGENT_BASE_URL } from '../market/supply/hosters/transport.ts'

/** Returns the address of a hoster's server, or `agent` for one that connects to the gateway. */
export function serverText(baseUrl: string): string {
  return baseUrl === AGENT_BASE_URL ? 'agent' : baseUrl
}

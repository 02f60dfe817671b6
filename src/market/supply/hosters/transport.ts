/**
 * How requests reach the server of a hoster: `direct` to its address, or `agent` over connections that the hoster's agent opened to
 * the gateway.
 */
export type HosterTransport = 'direct' | 'agent'

/** The base URL of every server behind an agent. The name never resolves (RFC 6761), so nothing can be sent there by mistake. */
export const AGENT_BASE_URL = 'https://agent.invalid/v1'

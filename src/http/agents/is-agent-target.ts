import type { IncomingMessage } from 'node:http'
import { CONTROL_PATH, DATA_PATH } from '../../wire/api/agent-protocol.ts'

/** Whether a request asks for a WebSocket of an agent. Called for requests with an Upgrade header only. */
export function isAgentTarget({ method, url = '', headers }: IncomingMessage): boolean {
  const [path] = url.split('?', 1)
  return (
    method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket' && (path === CONTROL_PATH || path === DATA_PATH)
  )
}

import type { IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import { AGENT_HEADER, CONTROL_BYTES_MAX, NODE_HEADER } from '../../wire/api/agent-protocol.ts'

export interface DialOptions {
  /** The URL of the gateway, http or https, without a path. */
  readonly gateway: string
  /** With a query. */
  readonly path: string
  readonly key: string
  readonly agentId: string
}

export type Dialled =
  | { readonly kind: 'open'; readonly socket: WebSocket; readonly node: string }
  /** `message` is for the hoster. `status` is null when nothing answered. */
  | { readonly kind: 'refused'; readonly status: number | null; readonly node: string; readonly message: string }

const HANDSHAKE_TIMEOUT_MS = 10_000
const REFUSAL_BYTES_MAX = 16 * 1024

/**
 * Opens a WebSocket to a node of the gateway. Behind one address there may be many nodes: `node` is the one that
 * answered. The socket is paused: resume it when its listeners are added. Never rejects.
 */
export function dial({ gateway, path, key, agentId }: DialOptions): Promise<Dialled> {
  return new Promise(resolve => {
    const socket = new WebSocket(`${gateway.replace(/^http/, 'ws')}${path}`, {
      headers: { authorization: `Bearer ${key}`, [AGENT_HEADER]: agentId },
      perMessageDeflate: false,
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      maxPayload: CONTROL_BYTES_MAX,
    })
    let node = ''
    const refuse = (status: number | null, message: string) => resolve({ kind: 'refused', status, node, message })
    socket
      .once('upgrade', response => {
        node = nodeOf(response)
      })
      .once('open', () => {
        // The first message may be in the packet of the handshake, before the caller has a listener.
        socket.pause()
        resolve({ kind: 'open', socket, node })
      })
      .once('unexpected-response', async (request, response) => {
        node = nodeOf(response)
        refuse(response.statusCode ?? 0, await readRefusal(response))
        request.destroy()
      })
      .on('error', (error: NodeJS.ErrnoException) => refuse(null, textOf(error)))
  })
}

function nodeOf(response: IncomingMessage): string {
  const node = response.headers[NODE_HEADER]
  return typeof node === 'string' ? node : ''
}

/** Returns the message of the error that the gateway sent. */
async function readRefusal(response: IncomingMessage): Promise<string> {
  const status = `The gateway answered ${response.statusCode}.`
  let text = ''
  try {
    for await (const part of response) {
      text += part
      if (text.length > REFUSAL_BYTES_MAX) return status
    }
    const { error } = JSON.parse(text) as { error?: { message?: unknown } }
    return typeof error?.message === 'string' ? error.message : status
  } catch {
    return status
  }
}

/** An error of several addresses has no message of its own. */
function textOf(error: NodeJS.ErrnoException): string {
  return error.message || error.code || 'no connection'
}

import { once } from 'node:events'
import type { WebSocket } from 'ws'
import { dial } from '../../src/market/agent/dial.ts'
import { CONTROL_PATH, DATA_PATH } from '../../src/wire/api/agent-protocol.ts'
import type { TestApp } from '../harness/app.ts'
import { idleConnections } from './agent-world.ts'

const AGENT_ID = '0197f0a0-0000-7000-8000-000000000002'

/** What a hostile agent does with a request that it got. */
export type Lie = (socket: WebSocket, request: Buffer) => void

/** An agent that follows the protocol until it has a request. */
export interface LyingAgent {
  readonly control: WebSocket
  readonly data: readonly WebSocket[]
  close(): void
}

/** Connects an agent that announces `test-model`, with one data connection for each lie. The last one is used first. */
export async function startLyingAgent(app: TestApp, key: string, lies: readonly Lie[]): Promise<LyingAgent> {
  const open: WebSocket[] = []
  const connect = async (path: string) => {
    const dialled = await dial({ gateway: app.url, path, key, agentId: AGENT_ID })
    if (dialled.kind === 'refused') throw new Error(dialled.message)
    open.push(dialled.socket)
    dialled.socket.resume()
    return dialled.socket
  }
  const control = await connect(CONTROL_PATH)
  const slots = Math.max(1, lies.length)
  control.send(JSON.stringify({ type: 'announce', version: '1', slots, models: [{ id: 'test-model', slots }] }))
  const stock = new Promise<void>(resolve => {
    control.on('message', data => String(data).includes('"stock"') && resolve())
  })
  control.send(JSON.stringify({ type: 'status', state: 'open', free_slots: slots }))
  await stock
  const data: WebSocket[] = []
  for (const lie of lies) {
    const socket = await connect(DATA_PATH)
    socket.once('message', (request: Buffer) => lie(socket, request))
    data.push(socket)
  }
  await idleConnections(app, lies.length)
  return {
    control,
    data,
    close() {
      for (const socket of open) socket.terminate()
    },
  }
}

/** Answers with these messages, one after the other. */
export function frames(...parts: readonly (string | Buffer)[]): Lie {
  return socket => {
    for (const part of parts) socket.send(Buffer.from(part))
  }
}

/** A complete answer. `head`: more lines of its head. */
export function wholeAnswer(
  content: string,
  head: readonly string[] = [],
  usage = { prompt_tokens: 1, completion_tokens: 1 },
): string {
  const total_tokens = usage.prompt_tokens + usage.completion_tokens
  const json = JSON.stringify({
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'test-model',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { ...usage, total_tokens },
  })
  const lines = [
    'HTTP/1.1 200 OK',
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(json)}`,
    ...head,
  ]
  return `${lines.join('\r\n')}\r\n\r\n${json}`
}

/** A stream without a length: it ends with the connection. */
export function streamAnswer(...events: readonly string[]): string {
  return `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n${events.map(event => `data: ${event}\n\n`).join('')}`
}

/** The event of a stream with this text. */
export function delta(content: string, more: object = {}): string {
  return JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more })
}

export const LAST_EVENTS = [JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }), '[DONE]']

export async function closed(socket: WebSocket): Promise<number> {
  const [code] = (await once(socket, 'close')) as [number]
  return code
}

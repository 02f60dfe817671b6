import { EventEmitter } from 'node:events'
import { expect, it } from 'vitest'
import type { WebSocket } from 'ws'
import { AgentLines, AgentStock } from './agent-stock.ts'

const WAIT_MS = 60_000

/** An agent that has connected and not reported yet. */
function newAgent() {
  const agent = {
    endpointId: 'endpoint',
    agentId: 'agent',
    hasReported: false,
    isPaused: false,
    freeSlots: 1,
    serves: () => agent.hasReported && !agent.isPaused,
    slotsOf: () => 1,
    onStockChange() {},
  }
  const lines = new AgentLines(agent)
  return {
    agent,
    lines,
    report() {
      agent.hasReported = true
      lines.onServingChange()
    },
  }
}

function take(stock: AgentStock) {
  const ended: { socket?: WebSocket; refusal?: string } = {}
  const onTaken = (socket: WebSocket) => {
    ended.socket = socket
  }
  const onRefused = ({ message }: Error) => {
    ended.refusal = message
  }
  return Object.assign(ended, { stop: stock.take('endpoint', 'model', onTaken, onRefused) })
}

it('a request at a new node waits for the first report of an agent, and then for a connection', () => {
  const stock = new AgentStock(WAIT_MS)
  const request = take(stock)
  const { lines, report } = newAgent()
  stock.add(lines)
  expect(lines.waiting).toBe(0)
  report()
  expect(lines.waiting).toBe(1)
  const socket = new EventEmitter() as WebSocket
  lines.add(socket)
  expect(request).toMatchObject({ socket })
})

it('a request at a new node is refused when the agent that connects is paused', () => {
  const stock = new AgentStock(WAIT_MS)
  const request = take(stock)
  const { agent, lines, report } = newAgent()
  agent.isPaused = true
  stock.add(lines)
  report()
  expect(request.refusal).toBe('No agent of the hoster serves this model now.')
})

it('a request that stops waiting takes no connection', () => {
  const stock = new AgentStock(WAIT_MS)
  const early = take(stock)
  early.stop()
  const { lines, report } = newAgent()
  stock.add(lines)
  report()
  expect(lines.waiting).toBe(0)
  const late = take(stock)
  expect(lines.waiting).toBe(1)
  late.stop()
  expect(lines.waiting).toBe(0)
})

it('a request is refused when no agent connects', async () => {
  const { promise, resolve } = Promise.withResolvers<Error>()
  new AgentStock(0).take('endpoint', 'model', () => {}, resolve)
  expect((await promise).message).toBe('No agent of the hoster has connected yet.')
})

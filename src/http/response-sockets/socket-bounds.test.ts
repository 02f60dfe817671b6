import { expect, it } from 'vitest'
import { SocketBounds } from './socket-bounds.ts'

/** A node with 256 connections gives WebSockets 64 of them, and one customer 16. */
const NODE_CONNECTIONS = 256

function fill(bounds: SocketBounds, customerId: string): number {
  for (let open = 0; ; open++) {
    try {
      bounds.add(customerId)
    } catch (error) {
      expect(error).toMatchObject({ code: 'rate_limit_exceeded', retryAfterS: 5 })
      return open
    }
  }
}

it('a customer has a quarter of the places, and at most 256', () => {
  const noIdle = () => false
  expect(fill(new SocketBounds(NODE_CONNECTIONS, noIdle), 'a')).toBe(16)
  expect(fill(new SocketBounds(1_000_000, noIdle), 'a')).toBe(256)
  expect(fill(new SocketBounds(1, noIdle), 'a')).toBe(8)
})

it('all customers have the places of the node, and an ended WebSocket counts once', () => {
  const bounds = new SocketBounds(NODE_CONNECTIONS, () => false)
  const end = bounds.add('a')
  end()
  end()
  expect(['a', 'b', 'c', 'd', 'e'].map(customer => fill(bounds, customer))).toEqual([16, 16, 16, 16, 0])
})

it('a full node closes idle WebSockets of customers with more', () => {
  const ends = new Map<string, (() => void)[]>()
  const bounds = new SocketBounds(NODE_CONNECTIONS, customerId => {
    const end = customerId === 'busy' ? undefined : ends.get(customerId)?.pop()
    end?.()
    return end !== undefined
  })
  const open = (customerId: string) => {
    const end = bounds.add(customerId)
    ends.set(customerId, [...(ends.get(customerId) ?? []), end])
  }
  for (const customer of ['busy', 'b', 'c', 'd']) for (let n = 0; n < 16; n++) open(customer)
  for (let n = 0; n < 12; n++) open('new')
  expect(['busy', 'b', 'c', 'd', 'new'].map(customer => ends.get(customer)!.length)).toEqual([16, 12, 12, 12, 12])
  expect(() => open('new')).toThrow('64 WebSockets')
})

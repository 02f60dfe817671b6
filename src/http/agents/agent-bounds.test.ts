import { expect, it } from 'vitest'
import { AgentBounds, type AgentConnection, AnnouncementBudget, ConnectRate } from './agent-bounds.ts'

/** A node with 800 connections allows agents 400 of them, and one hoster or owner 200. */
const NODE_CONNECTIONS = 800

const noIdle = () => false
const connection = (more: Partial<AgentConnection> = {}): AgentConnection => ({
  keyId: 'key',
  hosterId: 'hoster',
  ownerIds: ['owner'],
  isActive: true,
  ...more,
})

/** Opens connections until one is refused. Returns how many are open. */
function fill(bounds: AgentBounds, next: (n: number) => AgentConnection): number {
  for (let open = 0; open < 10_000; open++) {
    try {
      bounds.add(next(open))
    } catch (error) {
      expect(error).toMatchObject({ code: 'rate_limit_exceeded' })
      return open
    }
  }
  throw new Error('there is no bound')
}

it.each<[what: string, max: number, next: (n: number) => AgentConnection]>([
  ['of one key', 200, () => connection()],
  ['of many keys of one hoster', 200, n => connection({ keyId: `key-${n}` })],
  ['of many hosters of one owner', 200, n => connection({ keyId: `key-${n}`, hosterId: `hoster-${n}` })],
  [
    'of hosters that share one owner of several',
    200,
    n => connection({ hosterId: `hoster-${n}`, keyId: `key-${n}`, ownerIds: [`other-${n}`, 'owner'] }),
  ],
  [
    'of many hosters of many owners',
    400,
    n => connection({ keyId: `key-${n}`, hosterId: `hoster-${n}`, ownerIds: [`owner-${n}`] }),
  ],
  ['of a hoster that is not active', 32, () => connection({ isActive: false })],
  [
    'of all hosters that are not active',
    50,
    n => connection({ keyId: `key-${n}`, hosterId: `hoster-${n}`, ownerIds: [], isActive: false }),
  ],
])('connections %s: at most %i', (_what, max, next) => {
  expect(fill(new AgentBounds(NODE_CONNECTIONS, noIdle), next)).toBe(max)
})

it('bounds one network, before a key is known', () => {
  const bounds = new AgentBounds(NODE_CONNECTIONS, noIdle)
  for (let n = 0; n < 4_096; n++) bounds.addStranger(`2001:db8:0:1::${n.toString(16)}`)
  expect(() => bounds.addStranger('2001:db8:0:1:ffff::')).toThrow('connections from this network')
  bounds.addStranger('2001:db8:0:2::1')
})

it('a key has at most 2,048 connections to a node, however many that has', () => {
  expect(fill(new AgentBounds(1_000_000, noIdle), () => connection())).toBe(2_048)
})

it('counts nothing of a refused connection, and no ended one', () => {
  const bounds = new AgentBounds(NODE_CONNECTIONS, noIdle)
  const ends = Array.from({ length: 200 }, () => bounds.add(connection()))
  for (let n = 0; n < 500; n++) expect(() => bounds.add(connection({ ownerIds: ['another'] }))).toThrow()
  for (const end of ends) {
    end()
    end()
  }
  expect(fill(bounds, () => connection({ ownerIds: ['another'] }))).toBe(200)
})

it('counts nothing of a connection that is refused because new hosters have all of theirs', () => {
  const bounds = new AgentBounds(NODE_CONNECTIONS, noIdle)
  const newcomer = (hosterId: string) => connection({ keyId: hosterId, hosterId, ownerIds: [], isActive: false })
  const ends = Array.from({ length: 50 }, (_, n) => bounds.add(newcomer(`hoster-${n}`)))
  for (let n = 0; n < 100; n++) expect(() => bounds.add(newcomer('late'))).toThrow('hosters that are not active')
  for (const end of ends) end()
  expect(fill(bounds, () => newcomer('late'))).toBe(32)
})

it('a full node makes room for a hoster with fewer connections, from the idle ones of the largest that has any', () => {
  const ends = new Map<string, (() => void)[]>()
  const closed: string[] = []
  const bounds = new AgentBounds(NODE_CONNECTIONS, hosterId => {
    const idle = hosterId === 'busy' ? undefined : ends.get(hosterId)?.pop()
    if (idle !== undefined) closed.push(hosterId)
    idle?.()
    return idle !== undefined
  })
  const open = (hosterId: string) => {
    const end = bounds.add(connection({ keyId: hosterId, hosterId, ownerIds: [hosterId] }))
    ends.set(hosterId, [...(ends.get(hosterId) ?? []), end])
  }
  for (let n = 0; n < 200; n++) open('busy')
  for (let n = 0; n < 120; n++) open('large')
  for (let n = 0; n < 80; n++) open('small')
  for (let n = 0; n < 30; n++) open('new')
  expect(closed).toEqual(Array(30).fill('large'))
  // Each hoster without requests ends with the same share, and takes no more from the others.
  expect(fill(bounds, () => connection({ keyId: 'new', hosterId: 'new', ownerIds: ['new'] }))).toBe(36)
  expect(['large', 'small', 'new'].map(name => bounds.countOf(name))).toEqual([67, 67, 66])
  expect(() => open('large')).toThrow('Agents have 400 connections open')
})

it('a hoster opens 256 control connections at once, and then four a second', () => {
  const rate = new ConnectRate()
  const count = (nowMs: number) =>
    Array.from({ length: 1_000 }, () => rate.isFloodAfter('hoster', nowMs)).filter(is => !is).length
  expect(count(0)).toBe(256)
  expect(count(0)).toBe(0)
  expect(count(10_000)).toBe(40)
  expect(rate.isFloodAfter('other', 10_000)).toBe(false)
  rate.forgetRested(11_000)
  expect(rate.size).toBe(1)
  rate.forgetRested(100_000)
  expect(rate.size).toBe(0)
  expect(count(100_000)).toBe(256)
})

it('a node keeps 4 MiB of the announcements of a hoster, and 64 MiB of all', () => {
  const budget = new AnnouncementBudget()
  const kib = (n: number) => n * 1024
  for (let agent = 0; agent < 16; agent++) expect(budget.replace('a', 0, kib(256))).toBe(true)
  expect(budget.replace('a', 0, 1)).toBe(false)
  expect(budget.replace('a', kib(256), kib(10))).toBe(true)
  expect(budget.replace('a', kib(10), kib(256))).toBe(true)
  for (let hoster = 0; hoster < 15; hoster++)
    for (let agent = 0; agent < 16; agent++) expect(budget.replace(`b${hoster}`, 0, kib(256))).toBe(true)
  expect(budget.replace('c', 0, 1)).toBe(false)
  expect(budget.replace('b0', kib(256), 0)).toBe(true)
  expect(budget.replace('c', 0, kib(256))).toBe(true)
})

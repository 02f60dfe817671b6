import { expect, test } from 'vitest'
import { MasterKeys, markOf } from './master-keys.ts'

const [one, two, three] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2), Buffer.alloc(32, 3)]

test('the key of a mark seals from the moment on that it is used, and all open', () => {
  const ring = new MasterKeys([one, two])
  expect(ring.current).toBe(one)
  expect(ring.use(markOf(two))).toBe(true)
  expect(ring.all).toEqual([two, one])
  expect(ring.use(markOf(three))).toBe(false)
  expect(ring.current).toBe(two)
})

test('keys come and go, but never the one that seals', () => {
  const ring = new MasterKeys([one])
  expect(ring.replace([two, Buffer.from(one), three])).toBe(true)
  expect(ring.all).toEqual([one, two, three])
  expect(ring.replace([two, three])).toBe(false)
  ring.use(markOf(two))
  expect(ring.replace([Buffer.from(two)])).toBe(true)
  expect(ring.all).toEqual([two])
})

test('derived keys follow the ring, and differ by purpose', () => {
  const ring = new MasterKeys([one])
  const evidence = ring.derived('evidence of credit')
  const before = evidence.current
  expect(ring.derived('pseudonyms for hosters').current).not.toEqual(before)
  ring.replace([one, two])
  ring.use(markOf(two))
  expect(evidence.all).toEqual([evidence.current, before])
  expect(evidence.current).not.toEqual(before)
})

test('a mark reveals nothing of its key', () => {
  expect(markOf(one)).toMatch(/^[0-9a-f]{64}$/)
  expect(markOf(one)).not.toContain('0101')
})

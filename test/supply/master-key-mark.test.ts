import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { markOf, noteMasterKey, readMark } from '../../src/base/secrets/master-key-mark.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const db = useTestDatabase()

test('a database knows whether a server has the master key of the previous one, but not the key itself', async () => {
  const [key, other] = [randomBytes(32), randomBytes(32)]
  expect(await readMark(db.pool)).toBeUndefined()
  expect(await noteMasterKey(db.pool, key)).toBe(true)
  expect(await noteMasterKey(db.pool, key)).toBe(true)
  expect(await readMark(db.pool)).toBe(markOf(key))
  expect(markOf(key)).not.toContain(key.toString('hex'))
  expect(await noteMasterKey(db.pool, other)).toBe(false)
  expect(await noteMasterKey(db.pool, key)).toBe(false)
})

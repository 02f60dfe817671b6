import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { loadMasterKey } from './master-key.ts'

let dataDir: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'switchyard-key-'))
})
afterEach(() => rmSync(dataDir, { recursive: true }))

test('the first start creates a key that only its owner can read, and the next start finds it', () => {
  const key = loadMasterKey({ masterKey: null, dataDir })
  expect(key.length).toBe(32)
  expect(loadMasterKey({ masterKey: null, dataDir }).equals(key)).toBe(true)
  expect(statSync(join(dataDir, 'master.key')).mode & 0o777).toBe(0o600)
  expect(readdirSync(dataDir)).toEqual(['master.key'])
})

test('a configured key, hex or base64, is used and nothing is written', () => {
  const given = Buffer.alloc(32, 7)
  for (const text of [given.toString('hex'), given.toString('base64'), given.toString('base64url')]) {
    expect(loadMasterKey({ masterKey: text, dataDir }).equals(given)).toBe(true)
  }
  expect(readdirSync(dataDir)).toEqual([])
})

test('an invalid key is refused, and a broken file is not overwritten', () => {
  expect(() => loadMasterKey({ masterKey: 'secret', dataDir })).toThrow('SWITCHYARD_MASTER_KEY must be 32 bytes')
  writeFileSync(join(dataDir, 'master.key'), 'half')
  expect(() => loadMasterKey({ masterKey: null, dataDir })).toThrow('does not contain a valid key')
  expect(readFileSync(join(dataDir, 'master.key'), 'utf8')).toBe('half')
})

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { addMasterKey, findMasterKeys, loadMasterKeys, writeMasterKeys } from './master-key.ts'

let dataDir: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'switchyard-key-'))
})
afterEach(() => rmSync(dataDir, { recursive: true }))

test('the first start creates a key that only its owner can read, and the next start finds it', () => {
  const { current, all } = loadMasterKeys({ masterKey: null, dataDir })
  expect([current.length, all.length]).toEqual([32, 1])
  expect(loadMasterKeys({ masterKey: null, dataDir }).all).toEqual([current])
  expect(statSync(join(dataDir, 'master.key')).mode & 0o777).toBe(0o600)
  expect(readdirSync(dataDir)).toEqual(['master.key'])
})

test('a configured key, hex or base64, is used and nothing is written', () => {
  const given = Buffer.alloc(32, 7)
  for (const text of [given.toString('hex'), given.toString('base64'), given.toString('base64url')]) {
    expect(loadMasterKeys({ masterKey: text, dataDir }).all).toEqual([given])
  }
  expect(readdirSync(dataDir)).toEqual([])
})

test('an invalid key is refused, and a broken file is not overwritten', () => {
  expect(() => loadMasterKeys({ masterKey: 'secret', dataDir })).toThrow('SWITCHYARD_MASTER_KEY must be 32 bytes')
  writeFileSync(join(dataDir, 'master.key'), 'half')
  expect(() => loadMasterKeys({ masterKey: null, dataDir })).toThrow('does not contain a valid key')
  expect(readFileSync(join(dataDir, 'master.key'), 'utf8')).toBe('half')
})

test('several keys stand in the file, one per line, and in the environment', () => {
  const place = { masterKey: null, dataDir }
  const [first] = loadMasterKeys(place).all
  const added = addMasterKey(dataDir)
  expect(findMasterKeys(place)?.all).toEqual([first, added])
  writeMasterKeys(dataDir, [added, first!])
  expect(readFileSync(join(dataDir, 'master.key'), 'utf8')).toBe(
    `${added.toString('hex')}\n${first!.toString('hex')}\n`,
  )
  expect(statSync(join(dataDir, 'master.key')).mode & 0o777).toBe(0o600)
  expect(readdirSync(dataDir)).toEqual(['master.key'])
  const [one, two] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  for (const between of [',', ' , ', '\n', ' ']) {
    const masterKey = [one.toString('hex'), two.toString('base64'), one.toString('base64url')].join(between)
    expect(loadMasterKeys({ masterKey, dataDir }).all).toEqual([one, two])
  }
  expect(() => loadMasterKeys({ masterKey: `${one.toString('hex')},secret`, dataDir })).toThrow('must be 32 bytes')
})

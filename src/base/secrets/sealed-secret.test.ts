import { createCipheriv, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { fixedKey } from '../domain/sealing-keys.ts'
import { beginningOf, openSecret, type SecretOwner, sealSecret, UnreadableSecret } from './sealed-secret.ts'

const keys = fixedKey(randomBytes(32))
const owner: SecretOwner = { ownerId: '00000000-0000-4000-8000-00000000000a', purpose: 'upstream_key' }
const other: SecretOwner = { ...owner, ownerId: '00000000-0000-4000-8000-00000000000b' }

test('a sealed secret opens for the same hoster and master key', () => {
  const sealed = sealSecret(keys, 'sk-upstream-ü', owner)
  expect(openSecret(keys, sealed, owner)).toBe('sk-upstream-ü')
  expect(sealed.includes('sk-upstream')).toBe(false)
})

test('a record copied to another hoster does not open', () => {
  const sealed = sealSecret(keys, 'sk-upstream', owner)
  expect(() => openSecret(keys, sealed, other)).toThrow('cannot be decrypted')
})

test('another master key, a changed byte anywhere, or a cut record does not open', () => {
  const sealed = sealSecret(keys, 'sk-upstream', owner)
  expect(() => openSecret(fixedKey(randomBytes(32)), sealed, owner)).toThrow('cannot be decrypted')
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed)
    changed[at]! ^= 1
    expect(() => openSecret(keys, changed, owner)).toThrow('cannot be decrypted')
    expect(() => openSecret(keys, sealed.subarray(0, at), owner)).toThrow('cannot be decrypted')
  }
})

test('the error names the secret that cannot be opened', () => {
  const named = (purpose: SecretOwner['purpose']) => new UnreadableSecret({ ownerId: 'x', purpose }).message
  expect(named('totp')).toBe(
    'The secret of the authenticator app of person x cannot be decrypted with this master key. Restore the master key it was encrypted with, or let the person sign in with a recovery code and add the app again.',
  )
  expect(named('stored_answer')).toBe('The stored answer of request x cannot be decrypted with this master key.')
})

test('sealing a secret twice gives different records', () => {
  const seen = new Set(Array.from({ length: 1_000 }, () => sealSecret(keys, 'same', owner).toString('hex')))
  expect(seen.size).toBe(1_000)
})

test('every key of a ring opens what it sealed, and the record names the key', () => {
  const [former, current] = [randomBytes(32), randomBytes(32)]
  const ring = { current, all: [current, former] }
  const sealed = sealSecret(fixedKey(former), 'sk-upstream', owner)
  expect(openSecret(ring, sealed, owner)).toBe('sk-upstream')
  expect(sealed.subarray(0, 9)).toEqual(beginningOf(former))
  expect(sealSecret(ring, 'sk-upstream', owner).subarray(0, 9)).toEqual(beginningOf(current))
  // A record that claims another key of the ring does not open.
  const renamed = Buffer.concat([beginningOf(current), sealed.subarray(9)])
  expect(() => openSecret(ring, renamed, owner)).toThrow(UnreadableSecret)
})

test('records of before keys were named open with any key of the ring', () => {
  const [former, current] = [randomBytes(32), randomBytes(32)]
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', former, nonce).setAAD(Buffer.from(`1:${owner.ownerId}:${owner.purpose}`))
  const text = Buffer.concat([cipher.update('sk-upstream'), cipher.final()])
  const sealed = Buffer.concat([Buffer.of(1), nonce, cipher.getAuthTag(), text])
  expect(openSecret({ current, all: [current, former] }, sealed, owner)).toBe('sk-upstream')
  expect(() => openSecret(fixedKey(current), sealed, owner)).toThrow(UnreadableSecret)
})

import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { openSecret, type SecretOwner, sealSecret, UnreadableSecret } from './sealed-secret.ts'

const key = randomBytes(32)
const owner: SecretOwner = { ownerId: '00000000-0000-4000-8000-00000000000a', purpose: 'upstream_key' }
const other: SecretOwner = { ...owner, ownerId: '00000000-0000-4000-8000-00000000000b' }

test('a sealed secret opens for the same hoster and master key', () => {
  const sealed = sealSecret(key, 'sk-upstream-ü', owner)
  expect(openSecret(key, sealed, owner)).toBe('sk-upstream-ü')
  expect(sealed.includes('sk-upstream')).toBe(false)
})

test('a record copied to another hoster does not open', () => {
  const sealed = sealSecret(key, 'sk-upstream', owner)
  expect(() => openSecret(key, sealed, other)).toThrow('cannot be decrypted')
})

test('another master key, a changed byte anywhere, or a cut record does not open', () => {
  const sealed = sealSecret(key, 'sk-upstream', owner)
  expect(() => openSecret(randomBytes(32), sealed, owner)).toThrow('cannot be decrypted')
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed)
    changed[at]! ^= 1
    expect(() => openSecret(key, changed, owner)).toThrow('cannot be decrypted')
    expect(() => openSecret(key, sealed.subarray(0, at), owner)).toThrow('cannot be decrypted')
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
  const seen = new Set(Array.from({ length: 1_000 }, () => sealSecret(key, 'same', owner).toString('hex')))
  expect(seen.size).toBe(1_000)
})

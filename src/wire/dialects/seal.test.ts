import { deflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Seal, sealFamilies } from '../../base/domain/conversation.ts'
import { readSeal, SealReader, unwrapSeal, wrapSeal } from './seal.ts'

describe('a seal', () => {
  it('that a client sends back is the seal that it got', () => {
    const seals = fc
      .record({
        family: fc.constantFrom(...sealFamilies),
        data: fc.string().filter(data => !data.startsWith('sy1.')),
        account: fc.option(fc.stringMatching(/^[\w-]{1,64}$/), { nil: undefined }),
        isRedacted: fc.boolean(),
      })
      .map(
        ({ family, data, account, isRedacted }): Seal => ({
          family,
          data: family === 'text' ? '' : data,
          ...(account !== undefined && { account }),
          ...(isRedacted && family === 'anthropic' && { isRedacted }),
        }),
      )
    fc.assert(
      fc.property(seals, fc.constantFrom(...sealFamilies), (seal, own) => {
        // Its own dialect has another place for redacted reasoning.
        fc.pre(!(seal.isRedacted && seal.family === own && seal.account === undefined))
        expect(readSeal(wrapSeal(seal, own), own)).toEqual(seal)
      }),
      { numRuns: 500 },
    )
  })

  it('names no account if it has none', () => {
    expect(wrapSeal({ family: 'google', data: 'abc==' }, 'anthropic')).toBe('sy1.google..abc==')
    expect(unwrapSeal('sy1.google..abc==')).toEqual({ seal: { family: 'google', data: 'abc==' } })
  })

  it('of Anthropic passes unwrapped where the client expects it, and wrapped elsewhere', () => {
    const seal: Seal = { family: 'anthropic', data: 'EqQBCgIYAhIM' }
    expect(wrapSeal(seal, 'anthropic')).toBe('EqQBCgIYAhIM')
    expect(wrapSeal(seal, 'openai')).toBe('sy1.anthropic..EqQBCgIYAhIM')
  })

  it('carries the text of hidden reasoning', () => {
    const seal: Seal = { family: 'text', data: '', account: 'a' }
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), text => {
        expect(unwrapSeal(wrapSeal(seal, 'anthropic', text))).toEqual({ seal, text })
      }),
    )
    expect(wrapSeal(seal, 'anthropic', 'so '.repeat(1_000)).length).toBeLessThan(100)
  })

  it.each([
    ['another text', 'EqQBCgIYAhIM'],
    ['no parts', 'sy1.'],
    ['no data', 'sy1.openai'],
    ['an unknown family', 'sy1.other.a.data'],
    ['an account with spaces', 'sy1.openai.a b.data'],
    ['data that does not inflate', 'sy1.text.a.AAAA'],
  ])('is refused: %s', (_, text) => expect(unwrapSeal(text)).toBeNull())

  it('does not inflate to more than 64 times its size, nor to more than allowed', () => {
    const bomb = `sy1.text..${deflateRawSync(Buffer.alloc(1_000_000)).toString('base64url')}`
    expect(unwrapSeal(bomb)).toBeNull()
    const text = wrapSeal({ family: 'text', data: '' }, 'anthropic', 'a short thought')
    expect(unwrapSeal(text, 14)).toBeNull()
    expect(unwrapSeal(text, 15)?.text).toBe('a short thought')
  })

  it('does not inflate to more than 4 MiB in one request, failures included', () => {
    const sealOf = (units: number) => wrapSeal({ family: 'text', data: '' }, 'anthropic', 'abcdefgh'.repeat(units / 8))
    const reader = new SealReader()
    // Each is too small for its text, and could have inflated to 64 times its size.
    const bomb = sealOf(1_000_000)
    expect(reader.read(bomb)).toBeNull()
    const readable = sealOf(4_096)
    let count = 0
    while (reader.read(readable) !== null) count += 1
    const usedByBomb = bomb.length * 64
    expect(count).toBe(Math.floor((4_194_304 - usedByBomb) / 4_096))
  })

  it('inflates no more than 4,096 texts in one request', () => {
    const reader = new SealReader()
    const sealed = wrapSeal({ family: 'text', data: '' }, 'anthropic', 'a')
    const texts = Array.from({ length: 5_000 }, () => reader.read(sealed)).filter(carried => carried !== null)
    expect(texts).toHaveLength(4_096)
    expect(reader.read('sy1.google..abc')?.seal).toEqual({ family: 'google', data: 'abc' })
    const other = new SealReader()
    for (let at = 0; at < 100; at++) expect(other.read('sy1.text..AAAA')).toBeNull()
    expect(other.read(sealed)).toBeNull()
  })
})

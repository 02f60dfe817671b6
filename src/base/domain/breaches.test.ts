import { expect, test } from 'vitest'
import { noteBreaches } from './breaches.ts'
import type { Answer } from './handoff.ts'
import type { ProviderKind } from './offer.ts'

function breachesOf(
  { kind = 'hoster' as ProviderKind, ratio = 1, requested = 'qwen3-8b' },
  delivered: { reported?: number; named?: string; isCut?: boolean; counted?: number },
) {
  const attempts = [{ outcome: 'server_error' }, { outcome: 'answered' }]
  const offer = { endpoint: { kind }, upstreamModel: requested, meterRatio: { input: 1, output: ratio } }
  const { reported = 10, named, isCut = false, counted = 10 } = delivered
  const usage = { prompt_tokens: 5, completion_tokens: reported, total_tokens: 5 + reported, answeredModel: named }
  const noted = noteBreaches(
    { offer, attempts } as unknown as Answer,
    { outcome: 'served', reported: usage, isCut },
    100,
    { countedOutput: counted },
  )
  expect(noted[0]).toEqual(attempts[0])
  return noted[1]!.breaches ?? []
}

test.each([
  [{ reported: 100 }, []],
  // The tokens that end an answer, and the slack of every report.
  [{ reported: 113 }, []],
  [{ reported: 114 }, ['max_tokens']],
  [{ isCut: true, counted: 133 }, ['max_tokens']],
  [{ isCut: true, counted: 100 }, []],
  [{ named: 'other-8b', reported: 500 }, ['max_tokens', 'model_id']],
])('an answer to a request for 100 tokens, %j: %j', (delivered, expected) => {
  expect(breachesOf({}, delivered)).toEqual(expected)
})

test('a tokenizer that makes fewer tokens than the gateway is no breach', () => {
  expect(breachesOf({ ratio: 0.75 }, { isCut: true, counted: 133 })).toEqual([])
})

test.each([
  ['qwen3-8b', 'Qwen/Qwen3-8B'],
  ['qwen3:8b', '/models/Qwen3-8B-Q4_K_M.gguf'],
  ['gpt-4o', 'gpt-4o-2024-08-06'],
  ['meta-llama/Llama-3.3-70B-Instruct', 'llama-3.3-70b-instruct'],
  ['llama3', 'llama3:latest'],
])('a server may name %s as %s', (requested, named) => {
  expect(breachesOf({ requested }, { named })).toEqual([])
})

test.each([
  ['llama-3.1-70b', 'llama-3.1-8b'],
  ['qwen3-8b', 'gemma-3-4b'],
])('a server that is asked for %s and names %s breaks the protocol', (requested, named) => {
  expect(breachesOf({ requested }, { named })).toEqual(['model_id'])
})

test('servers that the operator chose are not judged', () => {
  expect(breachesOf({ kind: 'cloud' }, { named: 'other', reported: 500 })).toEqual([])
})

import { InvalidArgumentError } from 'commander'
import { expect, test } from 'vitest'
import {
  amountArgument,
  countArgument,
  defaultArgument,
  expiryArgument,
  modelIdsArgument,
  priceArgument,
  scoreArgument,
  textArgument,
  workersArgument,
} from './arguments.ts'

test('parses arguments to exact values', () => {
  expect(amountArgument('0.000000001')).toBe(1n)
  expect(priceArgument('0.15')).toBe(150_000n)
  expect(priceArgument('0')).toBe(0n)
  expect(countArgument('131072')).toBe(131_072)
  expect(scoreArgument('0.9')).toBe(0.9)
  expect([workersArgument('1'), workersArgument('64')]).toEqual([1, 64])
  expect(textArgument('  laptop ')).toBe('laptop')
  // Persian and some emoji need zero-width joiners.
  for (const text of ['می\u200cخواهم', '👩\u200d💻', '日本語']) expect(textArgument(text)).toBe(text)
  expect(modelIdsArgument('qwen3, llama,qwen3')).toEqual(['qwen3', 'llama'])
  expect(expiryArgument('2999-01-31')).toEqual(new Date('2999-01-31T00:00:00Z'))
  expect(expiryArgument('2999-01-31T12:00Z')).toEqual(new Date('2999-01-31T12:00:00Z'))
  expect(defaultArgument('allow_hosters=none', defaultArgument('max_latency_ms=500'))).toEqual({
    max_latency_ms: 500,
    allow_hosters: null,
  })
  const inTwoDaysMs = Date.now() + 2 * 86_400_000
  expect(Math.abs(expiryArgument('2d').getTime() - inTwoDaysMs)).toBeLessThan(60_000)
})

test.each([
  [amountArgument, ['0', '-5', '1e3', '1.0000000001', '', 'five', 'Infinity', '1000000000']],
  [priceArgument, ['-1', '0.0000001', 'free', '']],
  [countArgument, ['-1', '1.5', '1e3', '10000000000', '']],
  [scoreArgument, ['1.1', '-0.1', '80%', '.5', '']],
  [modelIdsArgument, ['', 'qwen3,', 'qwen3,auto', 'a\u001b[31mb', 'a\u202eb']],
  [defaultArgument, ['tier', 'tier=fast', 'privacy_mode=yes', 'dry_run=true', 'fallback_models=a\u202eb', '=x', '']],
  [workersArgument, ['0', '65', '-1', '1.5', '1e1', 'two', '']],
  [textArgument, ['', '   ', 'x'.repeat(201), 'a\u001b[31mb', 'a\nb', 'a\u009bb', 'a\u202eb', 'a\u2067b', 'a\u2028b']],
  [
    expiryArgument,
    [
      '0d',
      '2001-01-01',
      '2999-13-01',
      '2999-02-29',
      '2999-11-31T12:00Z',
      '2999-01-31T12:00',
      'tomorrow',
      '2999-01-31T12:00+02:00',
    ],
  ],
] as const)('%o refuses invalid text', (parse, texts) => {
  for (const text of texts) expect(() => parse(text), text).toThrow(InvalidArgumentError)
})

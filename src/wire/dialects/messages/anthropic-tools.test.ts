import { describe, expect, it } from 'vitest'
import { addedCitationTokens, addedToolTokens, betaHeaders } from './anthropic-tools.ts'

describe('betaHeaders', () => {
  it.each<[tools: unknown, header: string | undefined]>([
    [undefined, undefined],
    [[{ name: 'f', input_schema: {} }, { type: 'custom', name: 'g' }, null], undefined],
    [[{ type: 'computer_20241022' }], 'anthropic-beta: computer-use-2024-10-22'],
    [[{ type: 'text_editor_20241022' }, { type: 'bash_20241022' }], 'anthropic-beta: computer-use-2024-10-22'],
    [[{ type: 'computer_20251124' }], 'anthropic-beta: computer-use-2025-11-24'],
    [[{ type: 'computer_toolset_20260801' }, { type: 'memory_20250818' }, { type: 'bash_20250124' }], undefined],
    [[{ type: 'computer_20251124\r\nx-other: 1' }], undefined],
  ])('of %j is %s', (tools, header) => expect(betaHeaders(tools)).toEqual(header === undefined ? [] : [header]))
})

describe('addedToolTokens', () => {
  it('adds nothing without tools', () => {
    expect([addedToolTokens(undefined), addedToolTokens([])]).toEqual([0, 0])
  })

  // The numbers of Anthropic's price list, with the most that any of its models has. Holds cover its instructions
  // apart.
  it.each<[tools: object[], published: number]>([
    [[{ type: 'bash_20250124' }], 325],
    [[{ type: 'text_editor_20250429' }], 700],
    [[{ type: 'computer_20251124' }], 499 + 735],
    [[{ type: 'computer_toolset_20260801' }], 4_590],
    [[{ type: 'browser_toolset_20260801' }], 6_670],
    [[{ type: 'computer_20250124' }, { type: 'bash_20250124' }], 499 + 735 + 325],
  ])('is not below the published tokens of %j', (tools, published) => {
    expect(addedToolTokens(tools)).toBeGreaterThanOrEqual(published)
  })

  it('takes an unknown tool for the largest', () => {
    const largest = addedToolTokens([{ type: 'browser_toolset_20260801' }])
    for (const type of ['hologram_20270101', 'constructor', 'toString_20260101']) {
      expect(addedToolTokens([{ type }])).toBe(largest)
    }
  })
})

it('citations add tokens to each document, by its text', () => {
  expect(addedCitationTokens(40_000) - addedCitationTokens(0)).toBe(10_000)
})

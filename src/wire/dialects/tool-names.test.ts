import { expect, it } from 'vitest'
import { flatToolName } from './tool-names.ts'

it('a name that is too long stays unique and within 64 characters', () => {
  const long = 'a'.repeat(80)
  const names = [`${long}b`, `${long}c`].map(name => flatToolName({ name, namespace: 'mcp__server' }))
  expect(new Set(names).size).toBe(2)
  for (const name of names) expect(name).toMatch(/^[\w-]{64}$/)
})

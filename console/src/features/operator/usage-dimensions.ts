import type { UsageDimension } from '#api/operator/usage.ts'

/** What the rows of the operator's usage stand for, in the order of the choice. */
export const usageDimensions = [
  'model',
  'customer',
  'member',
  'key',
  'label',
  'provider',
  'server',
] as const satisfies readonly UsageDimension[]

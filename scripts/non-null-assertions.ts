import { parseSync } from '@swc/core'

/** Counts the non-null assertions (`value!`) of a TypeScript source. */
export function countNonNull(source: string): number {
  const tree = parseSync(source, { syntax: 'typescript', target: 'esnext' })
  return JSON.stringify(tree).split('"TsNonNullExpression"').length - 1
}

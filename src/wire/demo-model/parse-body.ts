import type { z } from 'zod'
import { elementAt } from '../../base/runtime/collections.ts'
import { keyPath } from '../../base/runtime/key-path.ts'
import { DemoError } from './demo-error.ts'

/** Parses the body of a request. Throws DemoError 400, naming the parameter. */
export function parseBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  const issue = elementAt(parsed.error.issues, 0)
  const param = keyPath(issue.path)
  throw new DemoError(400, param === '' ? issue.message : `${param}: ${issue.message}`, {
    param: param === '' ? null : param,
    code: 'invalid_value',
  })
}

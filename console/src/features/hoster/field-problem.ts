import { Problem } from '../../api/request.ts'

/** Returns whether the gateway refused this field. The form shows the message once, below all fields. */
export function fieldProblem(error: Error | null, param: string): boolean {
  return error instanceof Problem && error.param === param
}

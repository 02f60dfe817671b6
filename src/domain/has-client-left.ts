import { ApiError } from './errors.ts'

/** Whether the client ended the request. A gateway that shuts down aborts with the ApiError that its clients get. */
export function hasClientLeft({ aborted, reason }: { readonly aborted: boolean; readonly reason: unknown }): boolean {
  return aborted && !(reason instanceof ApiError)
}

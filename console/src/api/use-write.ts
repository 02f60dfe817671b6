import { notifications } from '@mantine/notifications'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { withConfirmation } from './confirmation.ts'
import { readAgain } from './query-client.ts'
import { request } from './request.ts'

/**
 * Sends a change and loads again what it changed. The outcome appears as a notice.
 *
 * @param send returns the request, as method, path below /console/api, and body
 * @param options.areas the first parts of the keys of the queries that show what was changed
 * @param options.done what the notice says, or nothing
 */
export function useWrite<Input = void, Answer = unknown>(
  send: (input: Input) => { method: string; path: string; body?: unknown; headers?: Record<string, string> },
  options: {
    readonly areas: readonly string[]
    readonly done?: string | ((answer: Answer, input: Input) => string)
    readonly onDone?: (answer: Answer, input: Input) => void
    /** The caller shows the error itself, such as in a form. */
    readonly showsError?: true
  },
) {
  const client = useQueryClient()
  return useMutation({
    async mutationFn(input: Input) {
      const { method, path, body, headers = {} } = send(input)
      return withConfirmation(() => request<Answer>(method, path, { body, headers }))
    },
    async onSuccess(answer, input) {
      await Promise.all(options.areas.map(area => readAgain(client, { queryKey: [area] })))
      const { done } = options
      if (done !== undefined) notifications.show({ message: typeof done === 'string' ? done : done(answer, input) })
      options.onDone?.(answer, input)
    },
    onError(error) {
      if (!options.showsError) notifications.show({ message: error.message, color: 'var(--danger)' })
    },
  })
}

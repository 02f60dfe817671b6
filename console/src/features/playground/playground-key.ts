import { Problem, request } from '../../api/request.ts'

/** Keys live in the memory of this tab only. */
const made = new Map<string, Promise<string>>()

/**
 * Calls `use` with the playground's key of this customer. The first call makes it: it ends after 12 hours and spends at
 * most 1 USD a day. When it has ended, also because another tab made one, a new key is made and `use` called again,
 * once.
 */
export async function withPlaygroundKey<T>(customerId: string, use: (key: string) => Promise<T>): Promise<T> {
  const isMadeBefore = made.has(customerId)
  const making = keyOf(customerId)
  try {
    return await use(await making)
  } catch (error) {
    if (!isMadeBefore || !(error instanceof Problem) || error.status !== 401) throw error
    // Another request may have made the new one already: a second would end it.
    if (made.get(customerId) === making) made.delete(customerId)
    return await use(await keyOf(customerId))
  }
}

function keyOf(customerId: string): Promise<string> {
  const known = made.get(customerId)
  if (known !== undefined) return known
  const making = request<{ key: string }>('POST', `customers/${customerId}/playground-key`, { body: {} }).then(
    ({ key }) => key,
  )
  made.set(customerId, making)
  making.catch(() => made.delete(customerId))
  return making
}

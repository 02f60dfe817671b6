import { useRef } from 'react'
import { request } from '../../api/request.ts'

const HOURS = 12
const LIMIT_USD_PER_DAY = 1

/**
 * Returns a function that gives the key of the playground. It is made at the first request, lives in the memory of this tab,
 * stops after 12 hours, and spends at most 1 USD a day.
 */
export function usePlaygroundKey(customerId: string): () => Promise<string> {
  const made = useRef<Promise<string> | null>(null)
  return () => {
    made.current ??= makeKey(customerId).catch(error => {
      made.current = null
      throw error
    })
    return made.current
  }
}

async function makeKey(customerId: string): Promise<string> {
  const { key } = await request<{ key: string }>('POST', `customers/${customerId}/keys`, {
    body: {
      name: 'Playground',
      spend_limit_usd: LIMIT_USD_PER_DAY,
      limit_reset: 'daily',
      expires_at: new Date(Date.now() + HOURS * 3_600_000).toISOString(),
    },
  })
  return key
}

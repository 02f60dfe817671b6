import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'

/** How often a screen looks for new data. */
const EVERY_MS = 3_000

/** Keeps what a customer's screens show up to date while the tab is visible. */
export function useLive(customerId: string): void {
  const client = useQueryClient()
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState !== 'visible') return
      for (const area of ['credits', 'usage', 'activity'])
        void client.invalidateQueries({ queryKey: [area, customerId] })
    }, EVERY_MS)
    return () => clearInterval(timer)
  }, [client, customerId])
}

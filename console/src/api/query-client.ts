import { QueryClient } from '@tanstack/react-query'
import { Problem } from './request.ts'

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (failures, error) =>
        failures < 2 && error instanceof Problem && (error.status === 0 || error.status >= 500),
      retryDelay: attempt => Math.min(1_000 * 2 ** attempt, 5_000),
    },
  },
})

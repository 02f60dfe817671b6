import { useQuery } from '@tanstack/react-query'
import { keysQuery } from '../api/queries.ts'
import { useCustomerId, useRights } from './use-session.ts'

/** The keys of the customer in the address. Asks only if the person may see them. */
export function useKeys() {
  const { seesKeys } = useRights()
  return useQuery({ ...keysQuery(useCustomerId()), enabled: seesKeys })
}

import { useQuery } from '@tanstack/react-query'
import { keyNamesQuery } from '../api/queries.ts'
import { useCustomerId, useRights } from './use-session.ts'

/** The names of the keys of the customer in the address. Asks only if the person may see them. */
export function useKeyNames() {
  const { seesKeys } = useRights()
  return useQuery({ ...keyNamesQuery(useCustomerId()), enabled: seesKeys })
}

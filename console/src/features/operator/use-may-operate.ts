import { useSession } from '../../shell/use-session.ts'

/** Whether the person may change things; an auditor only reads. */
export function useMayOperate(): boolean {
  return useSession().person.role === 'operator'
}

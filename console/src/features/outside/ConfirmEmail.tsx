import { t } from '@lingui/core/macro'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { sessionQuery } from '../../api/queries.ts'
import { request } from '../../api/request.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { SignedInOnly } from '../../shell/SignedInOnly.tsx'
import { OutsideCard } from './OutsideCard.tsx'
import { useLinkSecret } from './use-link-secret.ts'

/** Where the link to a new e-mail address leads. It only counts for the person that asked for it. */
export function ConfirmEmail() {
  const token = useLinkSecret()
  return (
    <SignedInOnly>
      <Confirm token={token} />
    </SignedInOnly>
  )
}

function Confirm({ token }: { token: string }) {
  const client = useQueryClient()
  const confirmed = useQuery({
    queryKey: ['invite', 'email', token],
    async queryFn() {
      await request('POST', 'person/email/confirm', { body: { token } })
      await client.invalidateQueries({ queryKey: sessionQuery.queryKey })
      return true
    },
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  })
  return (
    <OutsideCard title={t`New e-mail address`}>
      {confirmed.data && <p role="status">{t`This is the address of your account now.`}</p>}
      <FormProblem error={confirmed.error} />
      <Link to="/">{t`Go to the start`}</Link>
    </OutsideCard>
  )
}

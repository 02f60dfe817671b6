import { Navigate } from '@tanstack/react-router'
import { SignedInOnly } from '../../shell/SignedInOnly.tsx'
import { useSession } from '../../shell/use-session.ts'
import { OutsideCard } from './OutsideCard.tsx'

/** The start: the sign-in, or the first customer of the person, or the operator's pages. */
export function Doorway() {
  return (
    <SignedInOnly>
      <Inside />
    </SignedInOnly>
  )
}

function Inside() {
  const { person, memberships } = useSession()
  const [first] = memberships
  if (first !== undefined) return <Navigate to="/c/$customerId" params={{ customerId: first.customer_id }} replace />
  if (person.role !== null) return <Navigate to="/operator" replace />
  return (
    <OutsideCard title="No customer yet">
      <p>
        You are signed in as {person.email}, and you are not a member of a customer. Ask an owner for an invitation.
      </p>
    </OutsideCard>
  )
}

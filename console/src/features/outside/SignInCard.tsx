import { OutsideCard } from './OutsideCard.tsx'
import { SignInForm } from './SignInForm.tsx'

export function SignInCard() {
  return (
    <OutsideCard title="Sign in">
      <SignInForm />
    </OutsideCard>
  )
}

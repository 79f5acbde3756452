# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_whyoom_global_optspecs
    string join \n device= limit= card= torch= json= v/verbose bytes ascii color= fail-on= source= tee h/help V/version
end

function __fish_whyoom_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_whyoom_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_whyoom_using_subcommand
    set -l cmd (__fish_whyoom_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c whyoom -n "__fish_whyoom_needs_command" -l device -d 'Only this device (may be given again, or as 0,1)' -r
complete -c whyoom -n "__fish_whyoom_needs_command" -l limit -d 'What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]' -r
complete -c whyoom -n "__fish_whyoom_needs_command" -l card -d 'The limit of a card with nothing else on it, as "RTX 3090", instead of --limit' -r
complete -c whyoom -n "__fish_whyoom_needs_command" -l torch -d 'Model the allocator of this PyTorch release [default: inferred, else 2.11]' -r
complete -c whyoom -n "__fish_whyoom_needs_command" -l json -d 'Write JSON (pretty or, with --json=compact, on one line)' -r -f -a "pretty\t''
compact\t''"
complete -c whyoom -n "__fish_whyoom_needs_command" -l color -d 'When to use colours' -r -f -a "auto\t''
always\t''
never\t''"
complete -c whyoom -n "__fish_whyoom_needs_command" -l fail-on -d 'Exit with 1 if one of these causes is found with strong evidence or proof; `any` is every cause but healthy' -r
complete -c whyoom -n "__fish_whyoom_needs_command" -l source -d 'Look for source files here too, to show the lines named (may be given again); with --json, put them in' -r -F
complete -c whyoom -n "__fish_whyoom_needs_command" -s v -l verbose -d 'Show everything, not only what matters most'
complete -c whyoom -n "__fish_whyoom_needs_command" -l bytes -d 'Show exact bytes'
complete -c whyoom -n "__fish_whyoom_needs_command" -l ascii -d 'Keep to ASCII characters'
complete -c whyoom -n "__fish_whyoom_needs_command" -l tee -d 'Pass standard input on as it comes, and explain at its end'
complete -c whyoom -n "__fish_whyoom_needs_command" -s h -l help -d 'Print help'
complete -c whyoom -n "__fish_whyoom_needs_command" -s V -l version -d 'Print version'
complete -c whyoom -n "__fish_whyoom_needs_command" -a "explain" -d 'Says why, who, and what would help (the default verb)'
complete -c whyoom -n "__fish_whyoom_needs_command" -a "replay" -d 'Checks that the model reproduces a recording, or tries other settings on it'
complete -c whyoom -n "__fish_whyoom_needs_command" -a "tune" -d 'Searches the allocator\'s settings for those that reserve least'
complete -c whyoom -n "__fish_whyoom_needs_command" -a "diff" -d 'Says what changed between two recordings: optimizer, batch, version, rank'
complete -c whyoom -n "__fish_whyoom_needs_command" -a "settings" -d 'Says what each PyTorch release makes of a PYTORCH_CUDA_ALLOC_CONF'
complete -c whyoom -n "__fish_whyoom_needs_command" -a "summary" -d 'Prints `memory_summary()` of a recording, at its end or at any event'
complete -c whyoom -n "__fish_whyoom_needs_command" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l device -d 'Only this device (may be given again, or as 0,1)' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l limit -d 'What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l card -d 'The limit of a card with nothing else on it, as "RTX 3090", instead of --limit' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l torch -d 'Model the allocator of this PyTorch release [default: inferred, else 2.11]' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l json -d 'Write JSON (pretty or, with --json=compact, on one line)' -r -f -a "pretty\t''
compact\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l color -d 'When to use colours' -r -f -a "auto\t''
always\t''
never\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l fail-on -d 'Exit with 1 if one of these causes is found with strong evidence or proof; `any` is every cause but healthy' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l source -d 'Look for source files here too, to show the lines named (may be given again); with --json, put them in' -r -F
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -s v -l verbose -d 'Show everything, not only what matters most'
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l bytes -d 'Show exact bytes'
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l ascii -d 'Keep to ASCII characters'
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -l tee -d 'Pass standard input on as it comes, and explain at its end'
complete -c whyoom -n "__fish_whyoom_using_subcommand explain" -s h -l help -d 'Print help'
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l device -d 'Only this device (may be given again, or as 0,1)' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l limit -d 'What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l card -d 'The limit of a card with nothing else on it, as "RTX 3090", instead of --limit' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l torch -d 'Model the allocator of this PyTorch release [default: inferred, else 2.11]' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l json -d 'Write JSON (pretty or, with --json=compact, on one line)' -r -f -a "pretty\t''
compact\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l color -d 'When to use colours' -r -f -a "auto\t''
always\t''
never\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l settings -d 'Replay under this PYTORCH_CUDA_ALLOC_CONF instead of the recorded one; \'\' is PyTorch\'s defaults' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l empty-cache -d 'Call `empty_cache()` after every step, every Nth step, every `zero_grad()`, or every evaluation' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l drop -d 'Leave out a group of allocations: leak, activations, gradients, `optimizer_state`, parameters, batch, or those made at a place as train.py:132, train.py or a function\'s name (may be given again)' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l scale -d 'Scale a group\'s requests, as batch=0.5 for half the batch (may be given again)' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l optimizer -d 'Replace the recorded optimizer\'s state by that of another' -r -f -a "sgd\t'SGD without momentum: no state'
sgd-momentum\t'SGD with momentum: one tensor for each parameter'
adamw\t'Adam and AdamW: two tensors for each parameter'"
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -s v -l verbose -d 'Show everything, not only what matters most'
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l bytes -d 'Show exact bytes'
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -l ascii -d 'Keep to ASCII characters'
complete -c whyoom -n "__fish_whyoom_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c whyoom -n "__fish_whyoom_using_subcommand tune" -l device -d 'Only this device (may be given again, or as 0,1)' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand tune" -l limit -d 'What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand tune" -l card -d 'The limit of a card with nothing else on it, as "RTX 3090", instead of --limit' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand tune" -l torch -d 'Model the allocator of this PyTorch release [default: inferred, else 2.11]' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand tune" -l json -d 'Write JSON (pretty or, with --json=compact, on one line)' -r -f -a "pretty\t''
compact\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand tune" -l color -d 'When to use colours' -r -f -a "auto\t''
always\t''
never\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand tune" -s v -l verbose -d 'Show everything, not only what matters most'
complete -c whyoom -n "__fish_whyoom_using_subcommand tune" -l bytes -d 'Show exact bytes'
complete -c whyoom -n "__fish_whyoom_using_subcommand tune" -l ascii -d 'Keep to ASCII characters'
complete -c whyoom -n "__fish_whyoom_using_subcommand tune" -s h -l help -d 'Print help'
complete -c whyoom -n "__fish_whyoom_using_subcommand diff" -l device -d 'Only this device index (may be given again, or as 0,1)' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand diff" -l torch -d 'Model the allocator of this PyTorch release [default: inferred, else 2.11]' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand diff" -l json -d 'Write JSON (pretty or, with --json=compact, on one line)' -r -f -a "pretty\t''
compact\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand diff" -l color -d 'When to use colours' -r -f -a "auto\t''
always\t''
never\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand diff" -s v -l verbose -d 'Show everything, not only what matters most'
complete -c whyoom -n "__fish_whyoom_using_subcommand diff" -l bytes -d 'Show exact bytes'
complete -c whyoom -n "__fish_whyoom_using_subcommand diff" -l ascii -d 'Keep to ASCII characters'
complete -c whyoom -n "__fish_whyoom_using_subcommand diff" -s h -l help -d 'Print help'
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -l file -d 'Read the text from a file' -r -F
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -l torch -d 'Ask only this PyTorch release (may be given again, or as 2.9,2.10) [default: all from 1.13 to 2.15]' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -l json -d 'Write JSON (pretty or, with --json=compact, on one line)' -r -f -a "pretty\t''
compact\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -l color -d 'When to use colours' -r -f -a "auto\t''
always\t''
never\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -l env -d 'Read the variables of this environment'
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -l raw -d 'Take the text as the value itself, whatever it looks like'
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -l check -d 'Exit with 1 if a release asked refuses the string, does not read its variable, or ignores a part of it'
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -s v -l verbose -d 'Show everything, not only what matters most'
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -l bytes -d 'Show exact bytes'
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -l ascii -d 'Keep to ASCII characters'
complete -c whyoom -n "__fish_whyoom_using_subcommand settings" -s h -l help -d 'Print help'
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -l device -d 'Only this device (may be given again, or as 0,1)' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -l limit -d 'What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -l card -d 'The limit of a card with nothing else on it, as "RTX 3090", instead of --limit' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -l torch -d 'Model the allocator of this PyTorch release [default: inferred, else 2.11]' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -l at -d 'After which event: its index, the peak of allocated bytes, the last failed request, or the end' -r
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -l json -d 'Write JSON (pretty or, with --json=compact, on one line)' -r -f -a "pretty\t''
compact\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -l color -d 'When to use colours' -r -f -a "auto\t''
always\t''
never\t''"
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -l explain -d 'Say what lies between requested, allocated, active, reserved and the limit'
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -s v -l verbose -d 'Show everything, not only what matters most'
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -l bytes -d 'Show exact bytes'
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -l ascii -d 'Keep to ASCII characters'
complete -c whyoom -n "__fish_whyoom_using_subcommand summary" -s h -l help -d 'Print help'
complete -c whyoom -n "__fish_whyoom_using_subcommand help; and not __fish_seen_subcommand_from explain replay tune diff settings summary help" -f -a "explain" -d 'Says why, who, and what would help (the default verb)'
complete -c whyoom -n "__fish_whyoom_using_subcommand help; and not __fish_seen_subcommand_from explain replay tune diff settings summary help" -f -a "replay" -d 'Checks that the model reproduces a recording, or tries other settings on it'
complete -c whyoom -n "__fish_whyoom_using_subcommand help; and not __fish_seen_subcommand_from explain replay tune diff settings summary help" -f -a "tune" -d 'Searches the allocator\'s settings for those that reserve least'
complete -c whyoom -n "__fish_whyoom_using_subcommand help; and not __fish_seen_subcommand_from explain replay tune diff settings summary help" -f -a "diff" -d 'Says what changed between two recordings: optimizer, batch, version, rank'
complete -c whyoom -n "__fish_whyoom_using_subcommand help; and not __fish_seen_subcommand_from explain replay tune diff settings summary help" -f -a "settings" -d 'Says what each PyTorch release makes of a PYTORCH_CUDA_ALLOC_CONF'
complete -c whyoom -n "__fish_whyoom_using_subcommand help; and not __fish_seen_subcommand_from explain replay tune diff settings summary help" -f -a "summary" -d 'Prints `memory_summary()` of a recording, at its end or at any event'
complete -c whyoom -n "__fish_whyoom_using_subcommand help; and not __fish_seen_subcommand_from explain replay tune diff settings summary help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'

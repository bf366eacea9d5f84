# fish completion for omma: what may come is asked of the program itself.
function __omma_complete
    set -l words (commandline -opc) (string unescape -- (commandline -ct); or commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2> /dev/null)
        if test "$line" = :files
            set -l word $words[-1]
            set -l value (string replace -r '^--[^=]*=' '' -- $word)
            set -l prefix (string sub -l (math (string length -- $word) - (string length -- $value)) -- $word)
            for file in (__fish_complete_path $value)
                echo $prefix$file
            end
        else
            echo $line
        end
    end
end
complete -c omma -f -a '(__omma_complete)'
